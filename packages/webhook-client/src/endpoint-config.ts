import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';

const workingDirectory: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost']);

/**
 * Returns true for https URLs, and for http URLs of this host. Other http URLs are not allowed, because decisions could be read or changed
 * in transit.
 */
export function isSafeUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === 'https:' || (protocol === 'http:' && workingDirectory.has(hostname));
}

const file = z.string().min(1).optional();

/**
 * The configuration keys of a plugin that calls an external service: a URL with credential files, or a kubeconfig that contains all of
 * them.
 */
export const jsonEndpointKeys = {
  /** The URL of the service: `https://...`, or `http://` for this host only (127.0.0.1, ::1 or localhost). */
  url: z.string().refine(isSafeUrl, 'an https:// URL').optional(),
  /** The path of a kubeconfig, as upstream configures its webhooks. The server of the current context is the URL. */
  kubeconfigFile: file,
  /** The path of the PEM file of the CA that signed the service's certificate; by default the CAs of the system. */
  caFile: file,
  /** The paths of the PEM files of the client certificate and its private key. */
  certificateFile: file,
  keyFile: file,
  /** The path of a file whose content is sent as bearer token. */
  tokenFile: file,
};
export type JsonEndpoint = { readonly [K in keyof typeof jsonEndpointKeys]?: string | undefined } & {
  /** The PEM text of the CA, instead of `caFile`. */
  readonly ca?: string | undefined;
};

/** Returns a zod refinement that requires exactly one of the given keys. */
export const hasOneEndpoint = ({ url, kubeconfigFile }: JsonEndpoint): boolean => (url === undefined) !== (kubeconfigFile === undefined);
export const oneEndpointMessage = { error: 'exactly one of url and kubeconfigFile', path: ['url'] };

/** The URL of a service, its CA, and the credentials of the client. */
export interface Endpoint {
  readonly url: string;
  readonly ca?: string | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
  readonly token?: string | undefined;
}

/** Reads the files that the configuration names. @throws Error if a file cannot be read or is invalid */
export function readEndpoint(config: JsonEndpoint): Endpoint {
  const read = (path: string | undefined) => (path === undefined ? undefined : readFileSync(path, 'utf8'));
  const { url, kubeconfigFile, caFile, certificateFile, keyFile, tokenFile } = config;
  if (kubeconfigFile !== undefined) return readKubeconfigEndpoint(kubeconfigFile);
  if (url === undefined) throw new Error('no URL is given');
  return { url, ca: config.ca ?? read(caFile), certificate: read(certificateFile), key: read(keyFile), token: read(tokenFile)?.trim() };
}

const text = z.string().min(1).optional();
const kubeconfig = z.object({
  'current-context': z.string().default(''),
  contexts: z.array(z.object({ name: z.string(), context: z.object({ cluster: z.string(), user: z.string().default('') }) })).default([]),
  clusters: z.array(
    z.object({
      name: z.string(),
      cluster: z.object({ server: z.string(), 'certificate-authority': text, 'certificate-authority-data': text }),
    }),
  ),
  users: z
    .array(
      z.object({
        name: z.string(),
        user: z.object({
          token: text,
          tokenFile: text,
          'client-certificate': text,
          'client-certificate-data': text,
          'client-key': text,
          'client-key-data': text,
        }),
      }),
    )
    .default([]),
});

/**
 * Reads the kubeconfig of a webhook. If the file has no current context, which many webhook files omit, the first cluster and the first
 * user are used.
 */
function readKubeconfigEndpoint(path: string): Endpoint {
  const parsed = kubeconfig.safeParse(parse(readFileSync(path, 'utf8'), { prettyErrors: false, logLevel: 'error' }));
  if (!parsed.success) throw new Error(`${path} is no kubeconfig: ${parsed.error.issues.map(({ path: at }) => at.join('.')).join(', ')}`);
  const { contexts, clusters, users } = parsed.data;
  const context = contexts.find(({ name }) => name === parsed.data['current-context'])?.context ?? contexts[0]?.context;
  const cluster = (context === undefined ? clusters[0] : clusters.find(({ name }) => name === context.cluster))?.cluster;
  if (cluster === undefined) throw new Error(`${path} has no cluster`);
  if (!isSafeUrl(cluster.server)) throw new Error(`${path}: the server must be an https:// URL`);
  const user = (context === undefined ? users[0] : users.find(({ name }) => name === context.user))?.user;
  const read = (inline: string | undefined, name: string | undefined) =>
    inline !== undefined ? Buffer.from(inline, 'base64').toString('utf8') : name && readFileSync(resolve(dirname(path), name), 'utf8');
  return {
    url: cluster.server,
    ca: read(cluster['certificate-authority-data'], cluster['certificate-authority']),
    certificate: read(user?.['client-certificate-data'], user?.['client-certificate']),
    key: read(user?.['client-key-data'], user?.['client-key']),
    token: user?.token ?? read(undefined, user?.tokenFile)?.trim(),
  };
}
