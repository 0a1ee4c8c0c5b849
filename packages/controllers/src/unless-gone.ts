import { isStatus } from '@oarlock/api/status';

/** Does what is in vain, and no fault, when its object is not there any more. @throws whatever else goes wrong */
export async function unlessGone(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
  }
}
