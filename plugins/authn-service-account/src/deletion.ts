import type { KubeObject } from '@oarlock/api/object';
import type { Clock } from '@oarlock/primitives/clock';

/** How long after an object's deletion its tokens stay valid, as upstream. */
const leewayMs = 60_000;

/** Returns true if the object's deletionTimestamp is longer ago than the leeway. */
export const isDeleted = ({ metadata }: KubeObject, clock: Pick<Clock, 'now'>): boolean =>
  metadata?.deletionTimestamp !== undefined && Date.parse(metadata.deletionTimestamp) < clock.now() - leewayMs;
