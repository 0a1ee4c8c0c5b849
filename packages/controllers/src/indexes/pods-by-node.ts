import type { Pod } from '@oarlock/api/types/core-v1';

/** Index of pods by the node they are bound to. All controllers register the same function on the shared informer. */
export const podsByNodeIndex = 'node-of-pod';
export const podNodeKeys = (pod: Pod): readonly string[] => (pod.spec?.nodeName ? [pod.spec.nodeName] : []);
