import type { GroupVersionKind } from '@oarlock/api/kinds';
import type { Client } from '@oarlock/spi/client';
import { z } from 'zod';

/** The parts of an APIResourceList that name the resource of a kind. */
const resourceListSchema = z.object({
  resources: z.array(z.object({ name: z.string(), kind: z.string(), namespaced: z.boolean().default(false) })).default([]),
});

/** References come from clients, and their group and version become a path. */
const segment = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/;

/** Returns the resource of a custom kind, or of a kind of an extension API server. Undefined if no server serves it. */
export async function discoveredKind(
  client: Pick<Client, 'raw'>,
  { group, version, kind }: GroupVersionKind,
): Promise<{ readonly resource: string; readonly namespaced: boolean } | undefined> {
  if (!segment.test(group) || !segment.test(version)) return undefined;
  // a kind that cannot be found, for whatever reason, is not one whose finalizers the user may update
  const list = await client.raw('GET', `/apis/${group}/${version}`).catch(() => undefined);
  const parsed = resourceListSchema.safeParse(list);
  const found = parsed.data?.resources.find((each) => each.kind === kind && !each.name.includes('/'));
  return found && { resource: found.name, namespaced: found.namespaced };
}
