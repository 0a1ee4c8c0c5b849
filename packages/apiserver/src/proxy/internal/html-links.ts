import { rewriteLink, type LinkRewriting } from './location.ts';

/** The HTML attributes that contain links, by element. https://html.spec.whatwg.org/multipage/indices.html#attributes-3 */
const linksOf: Readonly<Record<string, readonly string[]>> = {
  a: ['href'],
  applet: ['codebase'],
  area: ['href'],
  audio: ['src'],
  base: ['href'],
  blockquote: ['cite'],
  body: ['background'],
  button: ['formaction'],
  command: ['icon'],
  del: ['cite'],
  embed: ['src'],
  form: ['action'],
  frame: ['longdesc', 'src'],
  head: ['profile'],
  html: ['manifest'],
  iframe: ['longdesc', 'src'],
  img: ['longdesc', 'src', 'usemap'],
  input: ['src', 'usemap', 'formaction'],
  ins: ['cite'],
  link: ['href'],
  object: ['classid', 'codebase', 'data', 'usemap'],
  q: ['cite'],
  script: ['src'],
  source: ['src'],
  video: ['poster', 'src'],
};
const attribute = /([a-z-]+)(\s*=\s*)("[^"]*"|'[^']*')/gi;
/** The maximum length of a tag. Longer text after `<` is not treated as a tag. */
const maxTag = 64 * 1024;

/** Rewrites the links of an HTML page that arrives in chunks. All other bytes are unchanged. */
export class HtmlLinkRewriter {
  readonly #rewriting: LinkRewriting;
  #pending = '';

  constructor(rewriting: LinkRewriting) {
    this.#rewriting = rewriting;
  }

  write(chunk: Buffer): Buffer {
    // one character per byte: markup is ASCII in all encodings of browsers but UTF-16
    const text = this.#pending + chunk.toString('latin1');
    const open = text.lastIndexOf('<');
    const cut = open >= 0 && text.length - open < maxTag && !text.includes('>', open) ? open : text.length;
    this.#pending = text.slice(cut);
    return Buffer.from(this.#rewrite(text.slice(0, cut)), 'latin1');
  }

  end(): Buffer {
    const rest = this.#pending;
    this.#pending = '';
    return Buffer.from(rest, 'latin1');
  }

  #rewrite(text: string): string {
    return text.replace(/<([a-z]+)(\s[^<>]*)>/gi, (tag, name: string, attributes: string) => {
      const element = name.toLowerCase();
      const links = Object.hasOwn(linksOf, element) ? linksOf[element] : undefined;
      if (links === undefined) return tag;
      const changed = attributes.replace(attribute, (whole, key: string, equals: string, quoted: string) => {
        if (!links.includes(key.toLowerCase())) return whole;
        const quote = quoted.charAt(0);
        return `${key}${equals}${quote}${rewriteLink(quoted.slice(1, -1), this.#rewriting, undefined)}${quote}`;
      });
      return `<${name}${changed}>`;
    });
  }
}
