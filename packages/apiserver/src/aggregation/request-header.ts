import type { IncomingHttpHeaders } from 'node:http';
import type { CertificateRequest } from '@oarlock/spi/cluster';
import type { Identity } from '@oarlock/spi/authn';

/** The certificate by which an extension API server knows whose word on the user it may take. */
export const frontProxyClientRequest: CertificateRequest = { commonName: 'front-proxy-client', usages: ['client'] };

const nameCharacters = /[^!#$&'*+\-.^_`|~0-9A-Za-z]/g;
const escapeHeaderKey = (key: string): string =>
  key
    .toLowerCase()
    .replaceAll('%', '%25')
    .replace(nameCharacters, (character) => encodeURIComponent(character));

/** Who asks, in headers; what the client itself sent under their names does not get through. */
export function requestHeaders(
  received: IncomingHttpHeaders,
  { name, uid, groups, extra = {} }: Identity,
): Readonly<Record<string, string | readonly string[] | undefined>> {
  const headers: Record<string, string | readonly string[] | undefined> = {};
  for (const header of Object.keys(received)) if (header.startsWith('x-remote-')) headers[header] = undefined;
  headers['x-remote-user'] = name;
  headers['x-remote-uid'] = uid;
  headers['x-remote-group'] = groups;
  for (const [key, values] of Object.entries(extra)) headers[`x-remote-extra-${escapeHeaderKey(key)}`] = values;
  return headers;
}

/** What extension API servers read to know all that: ConfigMap kube-system/extension-apiserver-authentication. */
export function authenticationConfigData(caBundle: string): Readonly<Record<string, string>> {
  return {
    'client-ca-file': caBundle,
    'requestheader-allowed-names': JSON.stringify([frontProxyClientRequest.commonName]),
    'requestheader-client-ca-file': caBundle,
    'requestheader-extra-headers-prefix': '["X-Remote-Extra-"]',
    'requestheader-group-headers': '["X-Remote-Group"]',
    'requestheader-uid-headers': '["X-Remote-Uid"]',
    'requestheader-username-headers': '["X-Remote-User"]',
  };
}
