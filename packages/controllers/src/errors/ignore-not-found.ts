import { isStatus } from '@oarlock/api/status';

/** Runs `work` and returns its result, or undefined if it fails with NotFound. @throws all other errors */
export async function ignoreNotFound<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}
