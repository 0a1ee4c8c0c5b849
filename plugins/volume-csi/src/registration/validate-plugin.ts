import type { RegistrationInfo } from '@oarlock/grpc/registration-client';

/** The maximum length of the socket path in bytes: the kernel's limit of 108 without the terminating zero. */
const maxSocketPathBytes = 107;

/** Returns why the registration of a plugin is rejected, in upstream's words where they exist; undefined if it is accepted. */
export function validatePlugin({ name, endpoint, supportedVersions }: RegistrationInfo, exists: boolean): string | undefined {
  if (!/^[a-zA-Z0-9]([-a-zA-Z0-9.]{0,61}[a-zA-Z0-9])?$/.test(name))
    return `RegisterPlugin error -- plugin registration failed with err: the name ${JSON.stringify(name)} is not a valid driver name`;
  if (!endpoint.startsWith('/') || Buffer.byteLength(endpoint) > maxSocketPathBytes)
    return `RegisterPlugin error -- the endpoint ${JSON.stringify(endpoint)} is not a path of a unix socket`;
  if (supportedVersions.length === 0) return `CSI driver ${name}: supported versions are empty`;
  if (!supportedVersions.some((version) => /^v?1\.\d+\.\d+/.test(version)))
    return `CSI driver ${name}: none of the versions "${supportedVersions.join(', ')}" is supported. Only 1.x.x is`;
  return exists ? `CSI driver ${name} is configured for this node, and already runs` : undefined;
}
