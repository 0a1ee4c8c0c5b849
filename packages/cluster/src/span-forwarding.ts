import { isStatus } from '@oarlock/api/status';
import type { Client } from '@oarlock/spi/client';
import type { RecordedSpan } from '@oarlock/spi/spans';

/**
 * Gives spans to the API server of another process, when that is one of ours: others have no place for them. One that refuses them is left
 * in peace after that. @throws StatusError when they could not be given
 */
export function spanForwarding(client: Client): (spans: readonly RecordedSpan[]) => Promise<void> {
  let wanted: boolean | undefined;
  return async (spans) => {
    wanted ??= await isOurs(client);
    if (!wanted) return;
    try {
      await client.raw('POST', '/oarlock/v1/spans', { spans });
    } catch (error) {
      if (isStatus(error, 'Forbidden', 'NotFound')) wanted = false;
      throw error;
    }
  };
}

async function isOurs(client: Client): Promise<boolean> {
  const { gitVersion = '' } = (await client.raw('GET', '/version')) as { readonly gitVersion?: string };
  return gitVersion.includes('+oarlock');
}
