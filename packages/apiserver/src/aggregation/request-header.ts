import type { IncomingHttpHeaders } from 'node:http';
import type { ClusterKeys, FrontProxyKeys } from '@oarlock/spi/cluster';
import type { Identity } from '@oarlock/spi/authn';

/** Returns the keys of the front proxy. @throws Error if the process does not have the keys; such a process cannot run an API server */
export function frontProxyKeys({ frontProxy }: ClusterKeys): FrontProxyKeys {
  if (frontProxy === undefined) throw new Error('this process has no front-proxy CA, which an API server requires');
  return frontProxy;
}

const nameCharacters = /[^!#$&'*+\-.^_`|~0-9A-Za-z]/g;
const escapeHeaderKey = (key: string): string =>
  key
    .toLowerCase()
    .replaceAll('%', '%25')
    .replace(nameCharacters, (character) => encodeURIComponent(character));

/** Returns the headers that name the user of a proxied request, and removes headers with these names that the client sent. */
export function requestHeaders(
  received: IncomingHttpHeaders,
  { name, uid, groups, extra = {} }: Identity,
  { sendsUid = true }: { readonly sendsUid?: boolean | undefined } = {},
): Readonly<Record<string, string | readonly string[] | undefined>> {
  const headers: Record<string, string | readonly string[] | undefined> = {};
  for (const header of Object.keys(received)) if (header.startsWith('x-remote-')) headers[header] = undefined;
  headers['x-remote-user'] = name;
  // the feature gate RemoteRequestHeaderUID
  if (sendsUid) headers['x-remote-uid'] = uid;
  headers['x-remote-group'] = groups;
  for (const [key, values] of Object.entries(extra)) headers[`x-remote-extra-${escapeHeaderKey(key)}`] = values;
  return headers;
}
