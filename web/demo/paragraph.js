// What the text sample learns from, until the visitor pastes something else. Our own words.

export const PARAGRAPH = `The loom stands by the window. In the morning the light comes over the hill and falls on the threads, and the weaver sits down and begins.
The warp is long and still. The weft is short and quick. The shuttle goes from the left hand to the right hand, and from the right hand to the left hand, and every time it goes there is a little more cloth than there was before.
A single thread is weak. It bends with the wind and it breaks with a pull. But a thread that goes over its neighbour and under the next is held by both, and holds them both, and the cloth is strong because the threads are many and each of them is held.
The weaver does not think of the whole cloth. The weaver thinks of the next thread, and then of the next, and the pattern comes by itself, as a road comes under the feet of the one who walks. When a thread is wrong, the weaver goes back to where the mistake was made, takes the thread out, and goes on.
In the evening the light goes behind the hill. The weaver stands up and looks at the cloth, and there is a river in it, and a bird over the river, and the hill, and the light on the hill. Nobody has drawn them. They were in the threads, and in the order of the threads, and in the many small steps of the day.
`;
