import type { Pod } from '@oarlock/api/types/core-v1';

/** Name of the index of pods by the node to which they are bound. All controllers register the same index function on the shared informer. */
export const podsByNodeIndex = 'node-of-pod';
export const podNodeKeys = (pod: Pod): readonly string[] => (pod.spec?.nodeName ? [pod.spec.nodeName] : []);
