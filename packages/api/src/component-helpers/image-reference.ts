/** Returns the tag or digest after the last path component; undefined if the reference has neither. */
function tagOrDigest(image: string): string | undefined {
  return /[:@]([^/]*)$/.exec(image)?.[1];
}

/** Returns the image with the default tag if it has no tag or digest: `nginx:latest` for `nginx`. */
export const withDefaultTag = (image: string): string => (tagOrDigest(image) === undefined ? `${image}:latest` : image);

/**
 * Returns the image with the default tag if it has no tag or digest.
 * @throws Error in upstream's words if the image reference is invalid
 */
export function applyDefaultImageTag(image: string): string {
  const { problem } = parseReference(image);
  if (problem !== undefined) throw new Error(`couldn't parse image name "${image}": ${problem}`);
  return withDefaultTag(image);
}

const domainComponent = '[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?';
const domain = `(?:${domainComponent}(?:\\.${domainComponent})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?`;
const pathComponent = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';
/** Matches a reference with its domain, as the package distribution/reference does: name, tag, digest algorithm, digest. */
const normalizedReference = new RegExp(
  `^(${domain}/${pathComponent}(?:/${pathComponent})*)(?::(\\w[\\w.-]{0,127}))?(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*):([a-fA-F0-9]{32,}))?$`,
);
const identifier = /^[a-f0-9]{64}$/;
const maxLength = 4096;
const maxNameLength = 255;
/** Length in hexadecimal digits. */
const digestLengths: Readonly<Record<string, number>> = { sha256: 64, sha384: 96, sha512: 128 };

interface ParsedReference {
  readonly tag?: string | undefined;
  readonly hasDigest?: boolean;
  /** Why the reference is invalid, in the words of distribution/reference and opencontainers/go-digest. */
  readonly problem?: string | undefined;
}

/** Parses an image reference (reference.ParseNormalizedNamed upstream). */
function parseReference(image: string): ParsedReference {
  if (image.length > maxLength) return { problem: 'invalid reference format' };
  if (identifier.test(image)) return { problem: `invalid repository name (${image}), cannot specify 64-byte hexadecimal strings` };
  const { domain: host, remainder } = splitDomain(image);
  const [repository = ''] = remainder.split(':');
  if (repository.toLowerCase() !== repository)
    return { problem: `invalid reference format: repository name (${repository}) must be lowercase` };
  const [, name, tag, algorithm, digest = ''] = normalizedReference.exec(`${host}/${remainder}`) ?? [];
  if (name === undefined) return { problem: 'invalid reference format' };
  if (name.length > maxNameLength) return { problem: `repository name must not be more than ${maxNameLength} characters` };
  return algorithm === undefined ? { tag } : { tag, hasDigest: true, problem: digestProblem(algorithm, digest) };
}

function splitDomain(image: string): { readonly domain: string; readonly remainder: string } {
  const slash = image.indexOf('/');
  const first = image.slice(0, Math.max(slash, 0));
  const hasDomain = slash >= 0 && (/[.:]/.test(first) || first === 'localhost' || first.toLowerCase() !== first);
  const host = hasDomain && first !== 'index.docker.io' ? first : 'docker.io';
  const path = hasDomain ? image.slice(slash + 1) : image;
  return { domain: host, remainder: host === 'docker.io' && !path.includes('/') ? `library/${path}` : path };
}

function digestProblem(algorithm: string, digest: string): string | undefined {
  const length = digestLengths[algorithm];
  if (length === undefined) return 'unsupported digest algorithm';
  if (digest.length !== length) return 'invalid checksum digest length';
  return /[A-F]/.test(digest) ? 'invalid checksum digest format' : undefined;
}

/**
 * Returns the default imagePullPolicy: `Always` for the tag `latest`, which an image without tag and digest has, otherwise `IfNotPresent`. An invalid
 * reference, such as `ko://example.com/app`, has no tag.
 */
export function defaultPullPolicy(image: string): 'Always' | 'IfNotPresent' {
  const { problem, hasDigest, tag = hasDigest === true ? '' : 'latest' } = parseReference(image);
  if (problem !== undefined) return 'IfNotPresent';
  return tag === 'latest' ? 'Always' : 'IfNotPresent';
}

/** Returns the image with the default registry and namespace: `docker.io/library/nginx:1` for `nginx:1`. Tag and digest are kept. */
export function withDefaultRegistry(image: string): string {
  const [first = '', ...rest] = image.split('/');
  const hasHost = rest.length > 0 && (first.includes('.') || first.includes(':') || first === 'localhost');
  return hasHost ? image : `docker.io/${rest.length === 0 ? 'library/' : ''}${image}`;
}

/** Returns the repository without tag and digest, with its registry: `nginx:1` -> `docker.io/library/nginx`. */
export const repositoryOf = (image: string): string => withDefaultRegistry(image.replace(/@.*$/, '').replace(/:[^/:]*$/, ''));
