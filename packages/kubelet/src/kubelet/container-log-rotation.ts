import { parseQuantity, quantityValue } from '@oarlock/api/values/quantity';
import type { KubeletConfig } from '../config/kubelet-config.ts';
import { ContainerLogManager, type ActiveLog } from '../kuberuntime/logs/container-log-manager.ts';
import type { ProcessContext } from '../pod/node-context.ts';
import type { PodWorker } from '../pod/worker/pod-worker.ts';

const rotationPeriodMs = 10_000;

/** Creates the log manager for the containers of the given pods. The log manager is not started. */
export function createContainerLogManager(
  workers: () => Iterable<PodWorker>,
  { clock, log, signal }: Pick<ProcessContext, 'clock' | 'log' | 'signal'>,
  { containerLogMaxSize, containerLogMaxFiles }: KubeletConfig,
): ContainerLogManager {
  return new ContainerLogManager({
    clock,
    log,
    signal,
    periodMs: rotationPeriodMs,
    maxSizeBytes: quantityValue(parseQuantity(containerLogMaxSize)),
    maxFiles: containerLogMaxFiles,
    logs: () => activeLogs(workers()),
  });
}

/** Yields the log of each running container. */
function* activeLogs(workers: Iterable<PodWorker>): Generator<ActiveLog> {
  for (const { record } of workers) {
    const { runtime, state } = record;
    if (runtime && !runtime.hollow)
      for (const { id, logPath } of state.runningContainers)
        if (logPath !== '') yield { path: logPath, containerId: id, driver: runtime.pleg.driver };
  }
}
