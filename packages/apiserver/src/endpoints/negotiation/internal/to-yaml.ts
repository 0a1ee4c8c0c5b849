import { Document, type ScalarTag, type Tags } from 'yaml';
import { compareKeys } from './compare-keys.ts';

/** Matches strings that YAML 1.1 would parse as another type. Go's encoder writes them in double quotes. */
const ambiguousScalars =
  /^(?:|~|<<|null|Null|NULL|y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF|true|True|TRUE|false|False|FALSE|[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[\da-fA-F_]+|\d[\d_]*(?::[0-5]?\d)*(?:\.[\d_]*)?(?:[eE][-+]?\d+)?|\.\d[\d_]*(?:[eE][-+]?\d+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)|\d{4}-\d\d?-\d\d?(?:[Tt ].*)?)$/;

/** Matches the start of strings that may need no quotes. */
const plainStart = /^[\w./$^(+=~;<\\]/;
/** Matches what may need quotes or a block anywhere else in a string. */
const special = /[^\x20-\x7e]|[ :]#|: |[ :-]$/;
/** The length from which a key takes a line of its own. */
const maxImplicitKey = 1024;

/** Returns the tags without their tests, so that this module and not the YAML library decides which scalars are quoted. */
const customTags = (tags: Tags): Tags =>
  tags.map((tag) => (typeof tag === 'object' && 'test' in tag ? ({ ...tag, test: /(?!)/ } as ScalarTag) : tag));

/** Formats a float as Go's %g does, which uses an exponent from smaller numbers on than JavaScript. */
function goFloat(value: number): string {
  const [mantissa = '', exponent = '0'] = value.toExponential().split('e');
  const power = Number(exponent);
  if (power >= -4 && power < 6) return String(value);
  return `${mantissa}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

/**
 * Encodes a value as Go's YAML encoder does: keys are sorted, list items have the indentation of their key. It writes the text itself, since the YAML library
 * takes a second for an object of 1 MB, and calls the library only for strings that need quotes or a block.
 */
export function toYaml(value: unknown): string {
  const writer = new YamlWriter();
  writer.root(value);
  return writer.text;
}

const isCollection = (value: unknown): value is object => typeof value === 'object' && value !== null;

function isEmpty(value: object): boolean {
  if (Array.isArray(value)) return value.length === 0;
  for (const key in value) if ((value as Readonly<Record<string, unknown>>)[key] !== undefined) return false;
  return true;
}

class YamlWriter {
  text = '';

  root(value: unknown): void {
    if (isCollection(value) && !isEmpty(value)) this.#collection(value, '');
    else this.text += `${this.#inline(value, '')}\n`;
  }

  /** Writes a collection that is not empty. The first line continues the current one, all others begin with the indentation. */
  #collection(value: object, indent: string): void {
    if (Array.isArray(value)) this.#list(value, indent);
    else this.#map(value as Readonly<Record<string, unknown>>, indent);
  }

  #list(items: readonly unknown[], indent: string): void {
    let first = true;
    for (const item of items) {
      this.text += first ? '- ' : `${indent}- `;
      first = false;
      if (isCollection(item) && !isEmpty(item)) this.#collection(item, `${indent}  `);
      else this.text += `${this.#inline(item ?? null, indent)}\n`;
    }
  }

  #map(map: Readonly<Record<string, unknown>>, indent: string): void {
    let first = true;
    for (const key of Object.keys(map).sort(compareKeys)) {
      const value = map[key];
      if (value === undefined) continue;
      if (!first) this.text += indent;
      first = false;
      const name = stringText(key, true);
      const isExplicit = name.length > maxImplicitKey;
      this.text += isExplicit ? `? ${name}\n${indent}:` : `${name}:`;
      if (!isCollection(value) || isEmpty(value)) this.text += ` ${this.#inline(value, indent)}\n`;
      else if (isExplicit) {
        this.text += ' ';
        this.#collection(value, `${indent}  `);
      } else {
        const below = Array.isArray(value) ? indent : `${indent}  `;
        this.text += `\n${below}`;
        this.#collection(value, below);
      }
    }
  }

  /** Returns the text of a scalar or an empty collection below an indentation. */
  #inline(value: unknown, indent: string): string {
    switch (typeof value) {
      case 'string': {
        const text = stringText(value, false);
        return indent === '' || !text.includes('\n') ? text : text.replaceAll(/\n(?=[^\n])/g, `\n${indent}`);
      }
      case 'number':
        if (Object.is(value, -0)) return '-0';
        return Number.isSafeInteger(value) ? String(value) : goFloat(value);
      case 'object':
        return value === null ? 'null' : Array.isArray(value) ? '[]' : '{}';
      default:
        return String(value);
    }
  }
}

/** Returns the text of a string as a key, or as the value of a key without indentation. */
function stringText(value: string, isKey: boolean): string {
  const ambiguous = value.length < 4096 && ambiguousScalars.test(value);
  if (!ambiguous && plainStart.test(value) && !special.test(value) && !value.startsWith('...')) return value;
  const document = new Document(isKey ? { [value]: 0 } : { k: value }, { version: '1.1', customTags });
  const pair = (document.contents as unknown as { readonly items: readonly Record<'key' | 'value', { type?: string }>[] }).items[0];
  if (ambiguous && pair !== undefined) pair[isKey ? 'key' : 'value'].type = 'QUOTE_DOUBLE';
  const text = document.toString({ lineWidth: 0, indentSeq: false, singleQuote: true });
  if (!isKey) return text.slice('k: '.length, -1);
  return text.startsWith('? ') && text.endsWith('\n: 0\n') ? text.slice(2, -'\n: 0\n'.length) : text.slice(0, -': 0\n'.length);
}
