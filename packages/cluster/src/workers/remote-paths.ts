import { X509Certificate } from 'node:crypto';
import type { Plugin } from '@oarlock/kernel/plugin';
import { abstained, type Authenticator, type AuthnResult, type Credentials } from '@oarlock/spi/authn';
import { ownCredentials, Paths, type PathAuthenticator, type PathHandler, type PathRequest, type PathResponse } from '@oarlock/spi/paths';
import { z } from 'zod';
import type { CallHandlers, ProcessCalls } from './process-calls.ts';

/** The path of a handler in the first process. */
export interface PathDescription extends Pick<PathHandler, 'path' | 'methods' | 'isPublic'> {
  readonly authenticates: boolean;
}

/** Credentials without certificates, which cannot be copied between processes. */
interface CopiedCredentials extends Omit<Credentials, 'certificate' | 'frontProxyCertificate'> {
  readonly certificate?: Uint8Array;
  readonly frontProxyCertificate?: Uint8Array;
}
interface PathCall {
  readonly path: string;
  readonly request: Omit<PathRequest, 'credentials'>;
  readonly credentials?: CopiedCredentials | undefined;
}
interface AuthenticateCall {
  readonly path: string;
  readonly credentials: CopiedCredentials;
}

function copyCredentials({ certificate, frontProxyCertificate, ...rest }: Credentials): CopiedCredentials {
  return {
    ...rest,
    ...(certificate && { certificate: certificate.raw }),
    ...(frontProxyCertificate && { frontProxyCertificate: frontProxyCertificate.raw }),
  };
}

function credentialsOf({ certificate, frontProxyCertificate, ...rest }: CopiedCredentials): Credentials {
  return {
    ...rest,
    ...(certificate && { certificate: new X509Certificate(certificate) }),
    ...(frontProxyCertificate && { frontProxyCertificate: new X509Certificate(frontProxyCertificate) }),
  };
}

export const describePath = ({ path, methods, isPublic, authenticator }: PathHandler): PathDescription => ({
  path,
  methods,
  ...(isPublic !== undefined && { isPublic }),
  authenticates: authenticator !== undefined,
});

/**
 * Returns the handlers of the calls that `remotePathPlugins` sends from a worker.
 * @param composition the authenticators of the composition, as one
 */
export function pathCalls(handlers: readonly PathHandler[], composition: Authenticator): CallHandlers {
  const byPath = new Map<string, PathHandler>(handlers.map((handler) => [handler.path, handler]));
  const handlerOf = (path: string): PathHandler => {
    const handler = byPath.get(path);
    if (handler === undefined) throw new Error(`no handler of ${path}`);
    return handler;
  };
  return {
    path: ({ path, request, credentials }: PathCall): Promise<PathResponse> =>
      handlerOf(path).handle({ ...request, ...(credentials && { credentials: credentialsOf(credentials) }) }),
    authenticate: async ({ path, credentials }: AuthenticateCall): Promise<AuthnResult> =>
      (await handlerOf(path).authenticator?.authenticate(credentialsOf(credentials), composition)) ?? abstained,
  };
}

/** Returns plugins that handle paths in the first process: they have state, such as sessions and traces, of which there is one. */
export function remotePathPlugins(descriptions: readonly PathDescription[], calls: Pick<ProcessCalls, 'call'>): readonly Plugin[] {
  return descriptions.map(({ authenticates, ...description }, index) =>
    Paths.plugin({
      id: `path-${index}`,
      config: z.strictObject({}),
      create: () => ({
        ...description,
        ...(authenticates && { authenticator: remoteAuthenticator(description.path, calls) }),
        handle: async ({ credentials, ...request }) =>
          (await calls.call('path', {
            path: description.path,
            request,
            credentials: credentials && copyCredentials(credentials),
          } satisfies PathCall)) as PathResponse,
      }),
    }),
  );
}

/** Authenticators of paths have credentials of their own; requests without them need no call. */
function hasOwnCredentials({ headers }: Credentials): boolean {
  const { cookiePrefix, header, subprotocolPrefix } = ownCredentials;
  const contains = (name: string, text: string) => String(headers[name] ?? '').includes(text);
  return headers[header] !== undefined || contains('cookie', cookiePrefix) || contains('sec-websocket-protocol', subprotocolPrefix);
}

const remoteAuthenticator = (path: string, calls: Pick<ProcessCalls, 'call'>): PathAuthenticator => ({
  async authenticate(credentials) {
    if (!hasOwnCredentials(credentials)) return abstained;
    return (await calls.call('authenticate', {
      path,
      credentials: copyCredentials(credentials),
    } satisfies AuthenticateCall)) as AuthnResult;
  },
});
