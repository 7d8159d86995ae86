// What is running. In: the session's compiled program. Out: tabs with counts, memory, kernels, graph.
export class Inspector {
  constructor() {}
  refresh() {}
}
