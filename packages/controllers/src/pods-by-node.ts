import type { Pod } from '@oarlock/api/types/core-v1';

/** The index of pods by the node they are bound to: one function for all who share the informer. */
export const byNode = 'node-of-pod';
export const nodeOf = (pod: Pod): readonly string[] => (pod.spec?.nodeName ? [pod.spec.nodeName] : []);
