import { isStatus } from '@oarlock/api/status';
import type { Client } from '@oarlock/spi/client';
import type { RecordedSpan } from '@oarlock/spi/spans';

/**
 * Returns a function that sends spans to the API server of another process. Only Oarlock's API server accepts spans; after a rejection nothing more
 * is sent.
 * @throws StatusError if the spans could not be sent
 */
export function spanForwarding(client: Client): (spans: readonly RecordedSpan[]) => Promise<void> {
  let accepted: boolean | undefined;
  return async (spans) => {
    accepted ??= await isOarlock(client);
    if (!accepted) return;
    try {
      await client.raw('POST', '/oarlock/v1/spans', { spans });
    } catch (error) {
      if (isStatus(error, 'Forbidden', 'NotFound')) accepted = false;
      throw error;
    }
  };
}

async function isOarlock(client: Client): Promise<boolean> {
  const { gitVersion = '' } = (await client.raw('GET', '/version')) as { readonly gitVersion?: string };
  return gitVersion.includes('+oarlock');
}
