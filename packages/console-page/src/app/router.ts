/** A position in the page: the path after `#`, and its parameters. Every position is a link that can be shared. */
export interface Location {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

/** Parses the fragment of a URL. */
export function parseLocation(hash: string): Location {
  const text = hash.startsWith('#') ? hash.slice(1) : hash;
  const mark = text.indexOf('?');
  const path = mark < 0 ? text : text.slice(0, mark);
  return { path: path === '' ? '/' : path, query: mark < 0 ? {} : Object.fromEntries(new URLSearchParams(text.slice(mark + 1))) };
}

/** Returns a link to a position. Segments are encoded; parameters without a value are left out. */
export function link(segments: readonly string[], query: Readonly<Record<string, string | undefined>> = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== '') parameters.set(name, value);
  const text = parameters.toString();
  return `#/${segments.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`;
}

/** Returns the parameters of a path that matches a pattern such as `/r/:group/:resource`, where `:name?` is optional; otherwise undefined. */
export function matchPath(pattern: string, path: string): Readonly<Record<string, string>> | undefined {
  const patternParts = pattern.split('/').slice(1);
  const pathParts = path.split('/').slice(1);
  if (pathParts.at(-1) === '') pathParts.pop();
  if (pathParts.length > patternParts.length) return undefined;
  const parameters: Record<string, string> = {};
  for (const [index, part] of patternParts.entries()) {
    const value = pathParts[index];
    if (part.startsWith(':')) {
      const isOptional = part.endsWith('?');
      if (value === undefined && !isOptional) return undefined;
      if (value !== undefined) parameters[part.slice(1, isOptional ? -1 : undefined)] = decodeSegment(value);
    } else if (value !== part && !(part === '' && value === undefined)) return undefined;
  }
  return parameters;
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
