/** The proxies that the environment of a process names, for plugins that declare `proxyEnvironment: true`. */
export interface EnvironmentProxy {
  readonly http?: string;
  readonly https?: string;
  readonly noProxy?: string;
}

/** Returns the proxies of HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper or lower case, as the HTTP client of Go does. Empty variables count as absent. */
export function environmentProxy(environment: Readonly<Record<string, string | undefined>>): EnvironmentProxy {
  const value = (name: string) =>
    [name, name.toLowerCase()].map((key) => environment[key]).find((text) => text !== undefined && text !== '');
  const [http, https, noProxy] = [value('HTTP_PROXY'), value('HTTPS_PROXY'), value('NO_PROXY')];
  return { ...(http !== undefined && { http }), ...(https !== undefined && { https }), ...(noProxy !== undefined && { noProxy }) };
}
