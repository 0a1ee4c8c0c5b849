import type { Pod } from '@oarlock/api/types/core-v1';

/** Annotations that tell where a pod comes from, as upstream names them. */
export const configSource = 'kubernetes.io/config.source';
export const configSeen = 'kubernetes.io/config.seen';
export const configHash = 'kubernetes.io/config.hash';
export const configMirror = 'kubernetes.io/config.mirror';

/** The image of a static pod in the API. */
export const isMirror = ({ metadata }: Pod): boolean => metadata?.annotations?.[configMirror] !== undefined;
