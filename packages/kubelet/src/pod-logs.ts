import { parseQuantity, value } from '@oarlock/api/quantity';
import type { KubeletConfig } from './kubelet-config.ts';
import { LogRotation, type WrittenLog } from './log-rotation.ts';
import type { KubeletContext } from './node-context.ts';
import type { PodWorker } from './pod-worker.ts';

const lookMs = 10_000;

/** Keeps the logs that containers of these pods write from growing without end. Not started. */
export function rotationOf(
  workers: () => Iterable<PodWorker>,
  { clock, log, signal }: Pick<KubeletContext, 'clock' | 'log' | 'signal'>,
  { containerLogMaxSize, containerLogMaxFiles }: KubeletConfig,
): LogRotation {
  return new LogRotation({
    clock,
    log,
    signal,
    everyMs: lookMs,
    maxSizeBytes: value(parseQuantity(containerLogMaxSize)),
    maxFiles: containerLogMaxFiles,
    logs: () => writtenLogs(workers()),
  });
}

/** Logs that running containers write to. */
function* writtenLogs(workers: Iterable<PodWorker>): Generator<WrittenLog> {
  for (const { record } of workers) {
    const { runtime, state } = record;
    if (runtime && !runtime.hollow)
      for (const { id, logPath } of state.running) if (logPath !== '') yield { path: logPath, containerId: id, driver: runtime.hub.driver };
  }
}
