import type { X509Certificate } from 'node:crypto';
import type { Plugin } from '@oarlock/kernel/plugin';
import { Authn, type AuthnResult, type Identity } from '@oarlock/spi/authn';
import { openPlugin } from './internal/open-plugin.ts';
import { resourceFor, type TestOptions } from './test-admission.ts';

export interface TestCredentials {
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly certificate?: X509Certificate;
  readonly audiences?: readonly string[];
  readonly path?: string;
}

export interface AuthnTest extends AsyncDisposable {
  authenticate(credentials: TestCredentials): Promise<AuthnResult & { readonly identity?: Identity; readonly because?: string }>;
  readonly api: Awaited<ReturnType<typeof openPlugin>>['api'];
  readonly clock: Awaited<ReturnType<typeof openPlugin>>['clock'];
}

/** Starts one authentication plugin for tests: `await test.authenticate({ token: 'abc' })`. @throws WiringError if the config is invalid */
export async function testAuthn(plugin: Plugin, config: unknown = {}, { objects = [] }: TestOptions = {}): Promise<AuthnTest> {
  const { instance, api, clock, dispose } = await openPlugin(Authn, plugin, {
    config,
    seed: (memory) => {
      for (const object of objects) memory.seed(resourceFor(object), object);
    },
  });
  return {
    authenticate: async ({ token, headers = {}, certificate, audiences, path = '/api' }) =>
      instance.authenticate({
        headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...headers },
        path,
        ...(token !== undefined && { bearerToken: token }),
        ...(certificate && { certificate }),
        ...(audiences && { audiences }),
      }),
    api,
    clock,
    [Symbol.asyncDispose]: dispose,
  };
}
