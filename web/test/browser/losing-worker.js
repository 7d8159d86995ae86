// The package's worker, whose devices can be lost: a message on the channel 'lose' destroys them without its
// knowledge, as a driver does.

import '/dist/worker.js';

const devices = [];
const { requestDevice } = GPUAdapter.prototype;
GPUAdapter.prototype.requestDevice = async function (...args) {
  const device = await requestDevice.apply(this, args);
  devices.push(device);
  return device;
};
new BroadcastChannel('lose').onmessage = () => devices.forEach((device) => device.destroy());
