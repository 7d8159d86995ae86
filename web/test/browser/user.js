// A user's script with a mistake in line 7, column 20 and following.
import * as g from '/dist/index.js';

class MLP extends g.Module { l1 = new g.Linear(1, 8); l2 = new g.Linear(9, 1); }

export const mistaken = (m, { x }) => {
  return g.mean(m.l2.fwd(m.l1.fwd(x)));
};
export const model = new MLP();
