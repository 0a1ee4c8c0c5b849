import type { KubeObject } from '@oarlock/api/object';
import type { Clock } from '@oarlock/primitives/clock';

/** Time after the end of an object's deletion during which its tokens stay valid, as upstream. */
const leewayMs = 60_000;

/** Reports whether the object should have been gone for longer than the leeway. */
export const isDeleted = ({ metadata }: KubeObject, clock: Pick<Clock, 'now'>): boolean =>
  metadata?.deletionTimestamp !== undefined && Date.parse(metadata.deletionTimestamp) < clock.now() - leewayMs;
