/**
 * Why the kubelet does not allocate the resources that a pod requests (KEP-1287). `Deferred`: they may fit when other pods have released
 * theirs. `Infeasible`: they never fit on this node.
 */
export interface ResizeRejection {
  readonly reason: 'Deferred' | 'Infeasible';
  readonly message: string;
}

/** The input of the conditions PodResizePending and PodResizeInProgress. An undefined part has no condition. */
export interface ResizeStatus {
  readonly pending: ResizeRejection | undefined;
  /** Running containers do not have their allocated resources yet; `failure`: the error of the last attempt. */
  readonly progress: { readonly failure: string | undefined } | undefined;
}
