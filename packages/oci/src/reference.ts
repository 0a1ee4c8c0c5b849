import { OciError } from './oci-error.ts';

/** A parsed and normalized image reference. */
export interface Reference {
  /** Host of the registry with an optional port: `docker.io`, `127.0.0.1:5000`. */
  readonly host: string;
  /** Path of the repository in the registry: `library/busybox`. */
  readonly repository: string;
  /** Absent only if the reference has a digest. */
  readonly tag: string | undefined;
  readonly digest: string | undefined;
}

const domainComponent = '[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?';
const domain = `(?:${domainComponent}(?:\\.${domainComponent})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?`;
const pathComponent = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';
/** Matches a reference with its domain, as the package distribution/reference does: domain, path, tag, digest. */
const normalized = new RegExp(`^(${domain})/(${pathComponent}(?:/${pathComponent})*)(?::(\\w[\\w.-]{0,127}))?(?:@(sha256:[a-f0-9]{64}))?$`);
const maxLength = 4096;
const maxNameLength = 255;

/** Parses a reference and adds the default registry, namespace and tag. @throws OciError `InvalidReference` */
export function parseReference(text: string): Reference {
  const invalid = (reason: string) => new OciError('InvalidReference', `couldn't parse image name "${text.slice(0, 300)}": ${reason}`);
  if (text.length > maxLength) throw invalid('invalid reference format');
  if (/^[a-f0-9]{64}$/.test(text)) throw invalid('cannot specify 64-byte hexadecimal strings');
  if (/@(?!sha256:)[a-z0-9+._-]+:/.test(text)) throw invalid('unsupported digest algorithm');
  const slash = text.indexOf('/');
  const first = text.slice(0, Math.max(slash, 0));
  const hasDomain = slash >= 0 && (/[.:]/.test(first) || first === 'localhost' || first.toLowerCase() !== first);
  const full = hasDomain ? text : `docker.io/${slash >= 0 ? '' : 'library/'}${text}`;
  const [, host, path, tag, digest] = normalized.exec(full) ?? [];
  if (host === undefined || path === undefined) throw invalid('invalid reference format');
  const hub = host === 'docker.io' || host === 'index.docker.io';
  const repository = hub && !path.includes('/') ? `library/${path}` : path;
  if (host.length + 1 + repository.length > maxNameLength)
    throw invalid(`repository name must not be more than ${maxNameLength} characters`);
  return { host: hub ? 'docker.io' : host, repository, tag: tag ?? (digest === undefined ? 'latest' : undefined), digest };
}

/** Returns the name of the repository with its registry: `docker.io/library/busybox`. */
export const repositoryName = ({ host, repository }: Pick<Reference, 'host' | 'repository'>): string => `${host}/${repository}`;

/** Returns the normalized text of a reference. */
export const formatReference = (reference: Reference): string =>
  `${repositoryName(reference)}${reference.tag === undefined ? '' : `:${reference.tag}`}${reference.digest === undefined ? '' : `@${reference.digest}`}`;
