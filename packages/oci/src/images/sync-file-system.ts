import { execa } from 'execa';
import type { Logger } from '@oarlock/primitives/logger';

const timeoutMs = 10 * 60_000;

/** Writes a file system's dirty pages to the disk (syncfs(2)), with sync(1), because Node has no such call. */
export async function syncFileSystem(directory: string, log: Logger): Promise<void> {
  const { failed, shortMessage } = await execa('sync', ['-f', directory], { reject: false, timeout: timeoutMs, stdin: 'ignore' }).then(
    (result) => ({
      failed: result.failed,
      shortMessage: result.shortMessage,
    }),
  );
  // without the program the kernel writes within half a minute
  if (failed) log.warn({ directory, reason: shortMessage }, 'the layers were not synchronized to the disk');
}
