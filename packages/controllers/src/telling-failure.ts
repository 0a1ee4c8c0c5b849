import type { KubeObject } from '@oarlock/api/object';
import { isStatus } from '@oarlock/api/status';
import type { EventRecorder } from '@oarlock/spi/client';

/** Does `work`, and says on an object when it fails. A race that is lost is no event: it is tried again at once. @throws what `work` throws */
export async function tellingFailure<T>(
  recorder: EventRecorder,
  about: KubeObject,
  reason: string,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isStatus(error, 'NotFound', 'Conflict')) recorder.event(about, 'Warning', reason, `${what}: ${(error as Error).message}`);
    throw error;
  }
}
