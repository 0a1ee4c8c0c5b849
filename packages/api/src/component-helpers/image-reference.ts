/** Matches image references, `[host[:port]/]path[:tag][@algorithm:hex]`, as the package distribution/reference defines them. */
const imageReference = /^[a-zA-Z0-9](?:[a-zA-Z0-9._-]|:\d+\/|\/)*(?::[\w][\w.-]{0,127})?(?:@[a-z0-9]+:[a-fA-F0-9]{32,})?$/;
const maxLength = 4096;

/** Returns the tag or digest after the last path component; undefined if the reference has neither. */
function tagOrDigest(image: string): string | undefined {
  return /[:@]([^/]*)$/.exec(image)?.[1];
}

/** Returns the image with the default tag if it has no tag or digest: `nginx:latest` for `nginx`. */
export const withDefaultTag = (image: string): string => (tagOrDigest(image) === undefined ? `${image}:latest` : image);

/** Returns the image with the default tag if it has no tag or digest. @throws Error if the image reference is invalid */
export function applyDefaultImageTag(image: string): string {
  if (image.length > maxLength || !imageReference.test(image))
    throw new Error(`couldn't parse image name "${image}": invalid reference format`);
  return withDefaultTag(image);
}

const domainComponent = '[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?';
const domain = `(?:${domainComponent}(?:\\.${domainComponent})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?`;
const pathComponent = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';
/** Matches a reference with its domain, as the package distribution/reference does: domain, path, tag, digest. */
const normalizedReference = new RegExp(
  `^(${domain}/${pathComponent}(?:/${pathComponent})*)(?::(\\w[\\w.-]{0,127}))?(@(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}))?$`,
);
const identifier = /^[a-f0-9]{64}$/;
const maxNameLength = 255;

/** Returns the tag and digest of an image reference; undefined if the reference is invalid (reference.ParseNormalizedNamed upstream). */
function parseReference(image: string): { readonly tag: string | undefined; readonly digest: string | undefined } | undefined {
  if (image.length > maxLength || identifier.test(image)) return undefined;
  const slash = image.indexOf('/');
  const first = image.slice(0, Math.max(slash, 0));
  const hasDomain = slash >= 0 && (/[.:]/.test(first) || first === 'localhost' || first.toLowerCase() !== first);
  const [, name = '', tag, digest] = normalizedReference.exec(hasDomain ? image : `docker.io/library/${image}`) ?? [];
  return name === '' || name.length > maxNameLength ? undefined : { tag, digest };
}

/**
 * Returns the default imagePullPolicy: `Always` for the tag `latest`, which an image without tag and digest has, otherwise `IfNotPresent`. An invalid
 * reference, such as `ko://example.com/app`, has no tag.
 */
export function defaultPullPolicy(image: string): 'Always' | 'IfNotPresent' {
  const parsed = parseReference(image);
  if (parsed === undefined) return 'IfNotPresent';
  const { tag = parsed.digest === undefined ? 'latest' : '' } = parsed;
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
