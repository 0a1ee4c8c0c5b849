import { Runtime } from '@oarlock/spi/runtime';
import { Storage } from '@oarlock/spi/storage';
import type { StartingPart } from '../process/slow-start.ts';
import type { Composition } from './compose.ts';

/** Returns a warning for each container runtime that cannot isolate pods from the node, if the composition has a kubelet. */
export async function isolationWarnings({ plan, host }: Pick<Composition, 'plan' | 'host'>): Promise<readonly string[]> {
  if (!plan.roles.includes('kubelet')) return [];
  const warnings: string[] = [];
  for (const [name, driver] of host.get(Runtime)) {
    const isolation = await driver.isolation?.();
    if (isolation?.enforced === false) warnings.push(`${name}: pods run without isolation: ${isolation.reason}`);
  }
  return warnings;
}

/** Returns how each container runtime that may lack support for images runs them, one sentence each, if the composition has a kubelet. */
export async function imageNotices({ plan, host }: Pick<Composition, 'plan' | 'host'>): Promise<readonly string[]> {
  if (!plan.roles.includes('kubelet')) return [];
  const notices: string[] = [];
  for (const [name, driver] of host.get(Runtime)) {
    const support = await driver.imageSupport?.();
    if (support)
      notices.push(
        support.available
          ? `Images: ${support.detail} (${name}).`
          : `Images cannot be run, only the image "host" for processes: ${support.detail} (${name}).`,
      );
  }
  return notices;
}

/** Returns the parts of a composition whose health explains why it is not ready: its roles, and its storage if the process has one. */
export function startingParts(composition: Pick<Composition, 'host' | 'plan' | 'roles'> | undefined): readonly StartingPart[] {
  if (composition === undefined) return [];
  const { host, plan } = composition;
  const storage = plan.roles.includes('apiserver') ? host.get(Storage) : undefined;
  return [
    ...(storage === undefined ? [] : [{ name: 'storage', checkHealth: () => storage.checkHealth?.() ?? ({ healthy: true } as const) }]),
    ...composition.roles().map((role) => ({ name: role.name, checkHealth: () => role.checkHealth() })),
  ];
}
