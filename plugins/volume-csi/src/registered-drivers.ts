import type { RegisteringPlugin } from '@oarlock/grpc/plugin-registration';

/** A socket's path has room for so many bytes. */
const longestSocket = 107;

/** Why a plugin that registers cannot be used; undefined: it can. In upstream's words where there are some. */
export function problemOf({ name, endpoint, supportedVersions }: RegisteringPlugin, taken: boolean): string | undefined {
  if (!/^[a-zA-Z0-9]([-a-zA-Z0-9.]{0,61}[a-zA-Z0-9])?$/.test(name))
    return `RegisterPlugin error -- plugin registration failed with err: the name ${JSON.stringify(name)} is not that of a driver`;
  if (!endpoint.startsWith('/') || Buffer.byteLength(endpoint) > longestSocket)
    return `RegisterPlugin error -- the endpoint ${JSON.stringify(endpoint)} is no path of a socket`;
  if (supportedVersions.length === 0) return `CSI driver ${name}: supported versions are empty`;
  if (!supportedVersions.some((version) => /^v?1\.\d+\.\d+/.test(version)))
    return `CSI driver ${name}: none of the versions "${supportedVersions.join(', ')}" is supported. Only 1.x.x is`;
  return taken ? `CSI driver ${name} is configured for this node, and runs already` : undefined;
}
