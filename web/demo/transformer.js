// A causal transformer over characters, as both samples of text have it: embeddings, blocks of attention and an MLP, each on a normalised
// copy and added to its input, and logits through the token embedding.

import { CausalSelfAttention, Embedding, LayerNorm, Linear, Module, add, init, matmul, relu, swapAxes } from '../dist/index.js';

class Block extends Module {
  constructor(width, heads) {
    super();
    this.norm1 = new LayerNorm(width);
    this.attention = new CausalSelfAttention(width, heads, { init: init.fanIn(), bias: false });
    this.norm2 = new LayerNorm(width);
    this.up = new Linear(width, 4 * width, { init: init.fanIn() });
    this.down = new Linear(4 * width, width, { init: init.fanIn() });
  }

  fwd(x) {
    const seen = add(x, this.attention.fwd(this.norm1.fwd(x)));
    return add(seen, this.down.fwd(relu(this.up.fwd(this.norm2.fwd(seen)))));
  }
}

export class Transformer extends Module {
  constructor({ vocabulary, context, width, layers, heads }) {
    super();
    this.tokens = new Embedding(vocabulary, width);
    this.positions = this.param([context, width]);
    this.blocks = Array.from({ length: layers }, () => new Block(width, heads));
    this.norm = new LayerNorm(width);
  }

  /** Logits of the next character: i32 [batch, context] gives [batch, context, vocabulary]. */
  fwd(ids) {
    let x = add(this.tokens.fwd(ids), this.positions);
    for (const block of this.blocks) x = block.fwd(x);
    return matmul(this.norm.fwd(x), swapAxes(this.tokens.W, 0, 1));
  }
}
