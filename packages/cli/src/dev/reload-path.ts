import { failure } from '@oarlock/api/status';
import type { Plugin } from '@oarlock/kernel/plugin';
import { Authz, authorizeChain } from '@oarlock/spi/authz';
import { Paths, type PathResponse } from '@oarlock/spi/paths';
import { z } from 'zod';
import type { Reload, ReloadResult } from './reloader.ts';

export const reloadUrl = '/oarlock/v1/reloads';

/** The plugins that can be reloaded; empty until the reloader has started. */
export interface ReloadablePlugins {
  readonly names: readonly string[];
  readonly latest: ReadonlyMap<string, Reload>;
  /** Returns undefined if no plugin has the name. */
  reloadByName(name: string): Promise<ReloadResult> | undefined;
}

const body = z.strictObject({ name: z.string().max(253) });

/**
 * `GET /oarlock/v1/reloads`: the names of the plugins that `oarlock dev` reloads, and what their latest reloads changed. `POST`: loads the source of the plugin `name` again. Only for users with all
 * permissions, because a plugin has those of its process.
 */
export function reloadPath(plugins: () => ReloadablePlugins | undefined): Plugin {
  const running = new Set<string>();
  const reload = async (requested: unknown): Promise<PathResponse> => {
    const parsed = body.safeParse(requested);
    if (!parsed.success) return rejection('BadRequest', z.prettifyError(parsed.error));
    const { name } = parsed.data;
    if (running.has(name)) return rejection('TooManyRequests', `the plugin ${JSON.stringify(name)} is being reloaded`);
    const result = plugins()?.reloadByName(name);
    if (result === undefined) return rejection('NotFound', `name: no plugin ${JSON.stringify(name)} can be reloaded`);
    running.add(name);
    try {
      return { code: 200, body: await result };
    } finally {
      running.delete(name);
    }
  };
  return Paths.plugin({
    id: 'plugin-reload',
    config: z.strictObject({}),
    needs: { authz: Authz },
    create: ({ authz }) => ({
      path: reloadUrl,
      methods: ['GET', 'POST'],
      async handle({ method, identity, credentials, body: requested }) {
        const all = { kind: 'resource', identity, verb: '*', group: '*', version: '*', resource: '*', subresource: '' } as const;
        const { decision } = await authorizeChain(authz, { ...all, namespace: '', name: '' });
        if (decision !== 'allow')
          return rejection('Forbidden', `user ${JSON.stringify(identity.name)} needs all permissions to reload plugins`);
        if (method === 'GET')
          return { code: 200, body: { names: plugins()?.names ?? [], latest: Object.fromEntries(plugins()?.latest ?? []) } };
        // a browser sends its client certificate also with requests of other sites
        const site = credentials?.headers['sec-fetch-site'];
        if (site !== undefined && site !== 'same-origin') return rejection('Forbidden', 'requests of other sites do not reload plugins');
        return reload(requested);
      },
    }),
  });
}

function rejection(reason: Parameters<typeof failure>[0], message: string): PathResponse {
  const { status } = failure(reason, message);
  return { code: status.code ?? 500, body: status };
}
