import type { Plugin } from '@oarlock/kernel/plugin';
import { Authz, type Attributes, type Decision } from '@oarlock/spi/authz';
import { openPlugin } from './internal/open-plugin.ts';
import { resourceFor, type TestOptions } from './test-admission.ts';

export interface AuthzRequestOptions {
  readonly groups?: readonly string[];
  readonly namespace?: string;
  readonly name?: string;
}

export interface AuthzTest extends AsyncDisposable {
  /**
   * Authorizes a resource request, `can('ada', 'get', 'deployments.apps/scale', { namespace: 'a' })`, or a path, `can('ada', 'get',
   * '/metrics')`.
   */
  can(user: string, verb: string, what: string, question?: AuthzRequestOptions): Promise<Decision & { readonly allowed: boolean }>;
  readonly api: Awaited<ReturnType<typeof openPlugin>>['api'];
  readonly clock: Awaited<ReturnType<typeof openPlugin>>['clock'];
}

/** Starts one authorization plugin for tests. @throws WiringError if the config is invalid */
export async function testAuthz(plugin: Plugin, config: unknown = {}, { objects = [] }: TestOptions = {}): Promise<AuthzTest> {
  const { instance, api, clock, dispose } = await openPlugin(Authz, plugin, {
    config,
    seed: (memory) => {
      for (const object of objects) memory.seed(resourceFor(object), object);
    },
  });
  return {
    async can(user, verb, what, question = {}) {
      const decision = await instance.authorize(attributesOf(user, { verb, what }, question));
      return { ...decision, allowed: decision.decision === 'allow' };
    },
    api,
    clock,
    [Symbol.asyncDispose]: dispose,
  };
}

function attributesOf(
  user: string,
  { verb, what }: { readonly verb: string; readonly what: string },
  { groups = ['system:authenticated'], namespace = '', name = '' }: AuthzRequestOptions,
): Attributes {
  const identity = { name: user, groups };
  if (what.startsWith('/')) return { kind: 'path', identity, verb, path: what };
  const [plain = '', subresource = ''] = what.split('/');
  const dot = plain.indexOf('.');
  const [resource, group] = dot < 0 ? [plain, ''] : [plain.slice(0, dot), plain.slice(dot + 1)];
  return { kind: 'resource', identity, verb, group, version: '*', resource, subresource, namespace, name };
}
