/** Returns a parsed URL, or undefined if the text is not a URL (URL.parse of newer versions of Node). */
export function parseUrl(text: string, base?: URL): URL | undefined {
  return URL.canParse(text, base?.href) ? new URL(text, base) : undefined;
}
