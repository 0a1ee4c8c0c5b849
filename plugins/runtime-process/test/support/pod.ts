import type { ContainerConfig, ContainerStatus, PodSandboxConfig, RuntimeEvent } from '@oarlock/spi/runtime';
import type { ProcessRuntime } from '../../src/process-runtime.ts';

const own = { network: 'NODE', pid: 'CONTAINER', ipc: 'POD' } as const;
let count = 0;

export function podConfig(dataDir: string, more: Partial<PodSandboxConfig> = {}): PodSandboxConfig {
  const name = `pod-${++count}`;
  return {
    metadata: { name, uid: `uid-${count}`, namespace: 'test', attempt: 0 },
    hostname: name,
    logDirectory: `${dataDir}/logs/${name}`,
    portMappings: [],
    labels: {},
    annotations: {},
    linux: { security: { namespaces: own } },
    ...more,
  };
}

export function containerConfig(command: readonly string[], more: Partial<ContainerConfig> = {}): ContainerConfig {
  return {
    metadata: { name: 'main', attempt: 0 },
    image: { image: 'host' },
    command,
    args: [],
    envs: [],
    mounts: [],
    labels: {},
    annotations: {},
    logPath: 'main/0.log',
    stdin: false,
    stdinOnce: false,
    tty: false,
    linux: { resources: {}, security: { namespaces: own } },
    ...more,
  };
}

export const security = (more: Partial<ContainerConfig['linux']['security']>): Pick<ContainerConfig, 'linux'> => ({
  linux: { resources: {}, security: { namespaces: own, ...more } },
});

export async function startPod(
  driver: ProcessRuntime,
  dataDir: string,
  command: readonly string[],
  more: Partial<ContainerConfig> = {},
  ofPod: Partial<PodSandboxConfig> = {},
): Promise<{ readonly sandbox: string; readonly container: string }> {
  const config = podConfig(dataDir, ofPod);
  const sandbox = await driver.runPodSandbox(config, '');
  const container = await driver.createContainer(sandbox, containerConfig(command, more), config);
  await driver.startContainer(container);
  return { sandbox, container };
}

/** Waits for the STOPPED event of a container. */
export async function ended(driver: ProcessRuntime, id: string): Promise<ContainerStatus> {
  const stop = new AbortController();
  try {
    for await (const item of driver.events(stop.signal)) {
      if (item !== 'resync' && (item satisfies RuntimeEvent).containerId !== id) continue;
      const status = await driver.containerStatus(id);
      if (status.state === 'EXITED') return status;
    }
    throw new Error('the events ended');
  } finally {
    stop.abort();
  }
}
