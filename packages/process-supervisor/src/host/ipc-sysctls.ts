/** Kernel parameters of an IPC namespace (ipc_namespaces(7)). */
const pattern = /^(?:kernel\.(?:shm\w+|msg\w+|sem)|fs\.mqueue\.\w+)$/;

/** Returns true if a sysctl belongs to an IPC namespace, so that a pod can have its own value. */
export const isIpcSysctl = (name: string): boolean => pattern.test(name);
