/**
 * The reason why the kubelet does not allocate the resources that a pod requests (KEP-1287). `Deferred`: the resources may fit after other pods
 * have released resources. `Infeasible`: the resources never fit on this node.
 */
export interface ResizeRejection {
  readonly reason: 'Deferred' | 'Infeasible';
  readonly message: string;
}

/** The input of the conditions PodResizePending and PodResizeInProgress. A condition is absent if its part is undefined. */
export interface ResizeStatus {
  readonly pending: ResizeRejection | undefined;
  /** Set while running containers do not have their allocated resources yet. `failure` is the error of the last attempt. */
  readonly progress: { readonly failure: string | undefined } | undefined;
}
