/**
 * Returns true if the init container is a sidecar: it keeps running beside the containers of the pod (KEP-753, upstream's
 * IsRestartableInitContainer).
 */
export const isRestartableInitContainer = (container: { readonly restartPolicy?: unknown } | undefined): boolean =>
  container?.restartPolicy === 'Always';
