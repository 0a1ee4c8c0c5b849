import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';
import { RuntimeError } from '@oarlock/spi/runtime';
import { expect, vi } from 'vitest';
import type { OciFixture } from './fixture.ts';
import { containerConfig, namespaces, podConfig } from './pod.ts';

const patience = { timeout: 120_000, interval: 25 };

/** Prints what a process of a container has and may do, one `name=value` a line. */
const script = `
echo uid=$(id -u); echo groups=$(id -G)
sed -n 's/^CapBnd:[[:space:]]*/bounding=/p; s/^NoNewPrivs:[[:space:]]*/nnp=/p; s/^Seccomp:[[:space:]]*/seccomp=/p; s/^Cpus_allowed_list:[[:space:]]*/cpus=/p' /proc/self/status
for type in user mnt pid ipc uts net cgroup; do echo $type=$(readlink /proc/self/ns/$type); done
(: > /probe) 2>/dev/null && echo root=writable || echo root=readonly
setting=/proc/sys/kernel/core_uses_pid; value=$(cat $setting); (echo $value > $setting) 2>/dev/null && echo kernel=writable || echo kernel=readonly
echo firmware=$(ls /sys/firmware | wc -l)
mknod /dev/probe c 1 3 2>/dev/null && echo mknod=yes || echo mknod=no
echo label=$(cat /proc/self/attr/current 2>/dev/null | tr -d '\\0')
for file in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do [ -e $file ] && echo memory=$(cat $file); done
echo shm_rmid_forced=$(cat /proc/sys/kernel/shm_rmid_forced)
echo forwarding=$(cat /proc/sys/net/ipv4/ip_forward)
echo extra=$(head -c 1 /dev/extra 2>/dev/null | wc -c); [ -e /dev/fuse ] && echo fuse=yes || echo fuse=no
echo node=$(cat /proc/$NODE_PROCESS/comm 2>/dev/null)
[ ! -d /own ] || (: > /own/$(id -u)) 2>/dev/null && echo own=written || echo own=denied
[ ! -d /shared ] || mounted=$(mount -t tmpfs tmpfs /shared 2>&1) && echo mounted=yes || echo mounted=$mounted
echo end=yes
exec sleep 3600`;

export interface ProbeRequest {
  readonly security?: Partial<ContainerConfig['linux']['security']>;
  readonly resources?: ContainerConfig['linux']['resources'];
  readonly pod?: Partial<PodSandboxConfig['linux']>;
  readonly container?: Partial<ContainerConfig>;
  /** How many containers of the pod run at the same time. */
  readonly containers?: number;
}
/** What each container of a pod printed, or why the pod did not start. */
export type ProbeResult = { readonly seen: readonly Readonly<Record<string, string>>[] } | { readonly error: string };

/** Runs a pod whose containers print what they have and may do. */
export async function probePod({ driver, dataDir, image }: OciFixture, request: ProbeRequest): Promise<ProbeResult> {
  const { security = {}, resources = {}, pod: podLinux = {}, container = {}, containers = 1 } = request;
  const wanted = security.namespaces ?? namespaces;
  const pod = podConfig(join(dataDir, 'logs'), { security: { namespaces: wanted }, ...podLinux });
  const envs = [{ key: 'NODE_PROCESS', value: String(process.pid) }];
  let sandbox: string | undefined;
  try {
    sandbox = await driver.runPodSandbox(pod, '');
    const seen: Record<string, string>[] = [];
    for (let attempt = 0; attempt < containers; attempt++) {
      const config = containerConfig(image, ['/bin/sh', '-c', script], {
        ...container,
        metadata: { name: 'main', attempt },
        logPath: `main/${attempt}.log`,
        envs,
        linux: { resources, security: { namespaces: wanted, ...security } },
      });
      const id = await driver.createContainer(sandbox, config, pod);
      await driver.startContainer(id);
      const { logPath } = await driver.containerStatus(id);
      const log = await vi.waitFor(async () => {
        const text = await readFile(logPath, 'utf8');
        expect(text).toContain('end=yes');
        return text;
      }, patience);
      const lines = log.split('\n').map((line) => line.split(' ').slice(3).join(' '));
      seen.push(
        Object.fromEntries(
          lines.filter((line) => line.includes('=')).map((line) => [line.split('=')[0], line.split('=').slice(1).join('=')]),
        ),
      );
    }
    return { seen };
  } catch (error) {
    if (!(error instanceof RuntimeError)) throw error;
    return { error: error.message };
  } finally {
    if (sandbox !== undefined) await driver.removePodSandbox(sandbox);
  }
}
