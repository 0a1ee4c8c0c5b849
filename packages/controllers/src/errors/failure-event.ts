import type { KubeObject } from '@oarlock/api/object';
import { isStatus } from '@oarlock/api/status';
import type { EventRecorder } from '@oarlock/spi/client';

/**
 * Runs `work` and records a Warning event on `object` if `work` fails. NotFound and Conflict errors record no event, because the reconcile is
 * retried at once.
 * @throws the error of `work`
 */
export async function withFailureEvent<T>(
  recorder: EventRecorder,
  object: KubeObject,
  { reason, message, work }: { readonly reason: string; readonly message: string; readonly work: () => Promise<T> },
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isStatus(error, 'NotFound', 'Conflict')) recorder.event(object, 'Warning', reason, `${message}: ${(error as Error).message}`);
    throw error;
  }
}
