import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';

export const namespaces = { network: 'NODE', pid: 'CONTAINER', ipc: 'POD' } as const;

export function podConfig(logs: string, linux: Partial<PodSandboxConfig['linux']> = {}): PodSandboxConfig {
  const uid = randomUUID();
  return {
    metadata: { name: 'pod', uid, namespace: 'test', attempt: 0 },
    hostname: 'pod',
    logDirectory: join(logs, uid),
    portMappings: [],
    labels: {},
    annotations: {},
    linux: { security: { namespaces }, ...linux },
  };
}

export function containerConfig(image: string, command: readonly string[], more: Partial<ContainerConfig> = {}): ContainerConfig {
  return {
    metadata: { name: 'main', attempt: 0 },
    image: { image },
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
    linux: { resources: {}, security: { namespaces } },
    ...more,
  };
}
