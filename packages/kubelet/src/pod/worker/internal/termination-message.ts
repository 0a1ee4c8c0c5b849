import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { PodRecord } from '../../pod-record.ts';
import type { ContainerStatus } from '@oarlock/spi/runtime';
import { parseLogRecord } from '../../../kuberuntime/logs/cri-log.ts';
import { runtimeLabels } from '../../../runtime/labels.ts';

const maxMessage = 4096;
const maxLogMessage = 2048;
const maxLogLines = 80;
const tailBytes = 64 * 1024;

/**
 * Returns a container's termination message: its message file or, depending on terminationMessagePolicy, the end of its log after a failure.
 * Returns an empty string if there is no message.
 */
async function terminationMessage(status: ContainerStatus): Promise<string> {
  const path = status.annotations[runtimeLabels.terminationMessagePath];
  // the kubelet's own file is the last mount: a volume at the same path is not read, as the pod may have put a link there
  const file = path === undefined ? undefined : status.mounts.findLast(({ containerPath }) => containerPath === path)?.hostPath;
  const message = file === undefined ? '' : (await readPart(file, maxMessage, 'head')).toString('utf8');
  if (
    message !== '' ||
    status.annotations[runtimeLabels.terminationMessagePolicy] !== 'FallbackToLogsOnError' ||
    status.exitCode === 0 ||
    status.logPath === ''
  )
    return message;
  const lines = splitLines(await readPart(status.logPath, tailBytes, 'tail')).slice(-maxLogLines);
  const text = Buffer.concat(
    lines.flatMap((line) => {
      const record = parseLogRecord(line);
      return record ? [record.text, ...(record.partial ? [] : [Buffer.from('\n')])] : [];
    }),
  );
  return text.subarray(Math.max(0, text.length - maxLogMessage)).toString('utf8');
}

/** Reads the head or the end of a file. Returns an empty buffer if the file cannot be read: the container may never have started. */
async function readPart(file: string, limit: number, end: 'head' | 'tail'): Promise<Buffer> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => undefined);
  if (!handle) return Buffer.alloc(0);
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) return Buffer.alloc(0);
    const { size } = stats;
    const length = Math.min(size, limit);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, end === 'head' ? 0 : size - length);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

function splitLines(bytes: Buffer): readonly Buffer[] {
  const lines: Buffer[] = [];
  for (let from = 0, at = bytes.indexOf(0x0a); at >= 0; from = at + 1, at = bytes.indexOf(0x0a, from)) lines.push(bytes.subarray(from, at));
  return lines;
}

/** Reads the termination messages of exited containers into the record, so that the first status that reports an exit contains the message. */
export async function readTerminationMessages(record: PodRecord): Promise<void> {
  if (record.runtime?.hollow !== false) return;
  for (const status of record.state.containers) {
    if (status.state === 'EXITED' && !record.terminationMessages.has(status.id))
      record.setTerminationMessage(status.id, await terminationMessage(status));
  }
}
