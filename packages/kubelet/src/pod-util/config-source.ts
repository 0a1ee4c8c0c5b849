import type { Pod } from '@oarlock/api/types/core-v1';

/** Upstream's annotations that identify the source of a pod. */
export const configSourceAnnotation = 'kubernetes.io/config.source';
export const configSeenAnnotation = 'kubernetes.io/config.seen';
export const configHashAnnotation = 'kubernetes.io/config.hash';
export const configMirrorAnnotation = 'kubernetes.io/config.mirror';

/** Returns true if the pod is a mirror pod: the API object of a static pod. */
export const isMirrorPod = ({ metadata }: Pod): boolean => metadata?.annotations?.[configMirrorAnnotation] !== undefined;
