import { parseExact } from '@oarlock/api/json/exact-json';
import type { ListMeta } from '@oarlock/api/object';
import type { Status } from '@oarlock/api/status';
import { Document, isScalar, visit, type Pair, type ScalarTag, type Tags } from 'yaml';
import { CollectedBytes } from './collected-bytes.ts';
import type { ResponseEncoding } from '../response-encoding.ts';
import type { ByteSink, EncodedObject, WatchFrame } from '../../request/response.ts';

/** Matches strings that YAML 1.1 would parse as another type. Go's encoder writes them in double quotes. */
const ambiguousScalars =
  /^(?:|~|<<|null|Null|NULL|y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF|true|True|TRUE|false|False|FALSE|[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[\da-fA-F_]+|\d[\d_]*(?::[0-5]?\d)*(?:\.[\d_]*)?(?:[eE][-+]?\d+)?|\.\d[\d_]*(?:[eE][-+]?\d+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)|\d{4}-\d\d?-\d\d?(?:[Tt ].*)?)$/;

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

/** Encodes a value as Go's YAML encoder does: keys are sorted, list items have the indentation of their key. */
export function toYaml(value: unknown): string {
  const document = new Document(value, { version: '1.1', customTags, sortMapEntries: byKey, aliasDuplicateObjects: false });
  visit(document, {
    Scalar(_, node) {
      if (typeof node.value === 'string' && ambiguousScalars.test(node.value)) node.type = 'QUOTE_DOUBLE';
      else if (typeof node.value === 'number' && !Number.isSafeInteger(node.value)) node.value = goFloat(node.value);
    },
  });
  return document.toString({ lineWidth: 0, indentSeq: false, singleQuote: true });
}

const textOf = ({ key }: Pair): string => String(isScalar(key) ? key.value : key);
const byKey = (a: Pair, b: Pair): number => compareKeys(textOf(a), textOf(b));
const isLetter = (c: string) => /\p{L}/u.test(c);
const isDigit = (c: string) => /\p{Nd}/u.test(c);

/** Compares keys as Go's YAML encoder does: other characters precede letters, and digit sequences are compared as numbers. */
export function compareKeys(a: string, b: string): number {
  const [x, y] = [[...a], [...b]];
  let digits = false;
  for (let i = 0; i < x.length && i < y.length; i++) {
    const [c = '', d = ''] = [x[i], y[i]];
    if (c === d) {
      digits = isDigit(c);
      continue;
    }
    const [left, right] = [isLetter(c), isLetter(d)];
    if (left && right) return c < d ? -1 : 1;
    if (left || right) return (digits ? left : right) ? -1 : 1;
    return (
      compareNumbers(x.slice(i), y.slice(i), digits && x.slice(0, i).some((each) => each !== '0' && isDigit(each)) ? '1' : '') ||
      (c < d ? -1 : 1)
    );
  }
  return x.length - y.length;
}

function compareNumbers(a: readonly string[], b: readonly string[], before: string): number {
  const numberIn = (text: readonly string[]) => /^\d*/.exec(text.join(''))?.[0] ?? '';
  const [left, right] = [numberIn(a), numberIn(b)];
  const [n, m] = [BigInt(before + left || '0'), BigInt(before + right || '0')];
  return n === m ? left.length - right.length : n < m ? -1 : 1;
}

/** Encodes responses as YAML, which is derived from the compact JSON because YAML requests are rare. */
export class YamlEncoding implements ResponseEncoding {
  readonly contentType = 'application/yaml';
  readonly streamType = 'application/json';
  readonly #inner: ResponseEncoding;
  /** The YAML of the key `items` and of the members after the items. */
  #items = 'items';
  #tail = '';
  #hasItems = false;
  constructor(inner: ResponseEncoding) {
    this.#inner = inner;
  }

  item(item: EncodedObject): Buffer {
    return Buffer.from(toYaml(parseExact(this.#inner.item(item).toString('utf8'))));
  }

  /** Returns the YAML before the items. List items have the indentation of their key, so the items can be written one by one. */
  listHead(metadata: ListMeta): Buffer {
    const json = this.#inner.listHead(metadata, 0).toString('utf8') + this.#inner.listTail(metadata).toString('utf8');
    const { items, rows, ...head } = JSON.parse(json) as Record<string, unknown>;
    this.#items = items === undefined && rows !== undefined ? 'rows' : 'items';
    const part = (isIncluded: (key: string) => boolean) => {
      const members = Object.entries(head).filter(([key]) => isIncluded(key));
      return members.length === 0 ? '' : toYaml(Object.fromEntries(members));
    };
    this.#tail = part((key) => key > this.#items);
    return Buffer.from(part((key) => key < this.#items));
  }

  listItem(item: EncodedObject, first: boolean, sink: ByteSink): void {
    const bytes = new CollectedBytes();
    this.#inner.listItem(item, true, bytes);
    if (first) sink.add(Buffer.from(`${this.#items}:\n`));
    this.#hasItems = true;
    sink.add(Buffer.from(toYaml([parseExact(bytes.text)])));
  }

  listTail(_metadata: ListMeta): Buffer {
    return Buffer.from((this.#hasItems ? '' : `${this.#items}: []\n`) + this.#tail);
  }
  frame(frame: WatchFrame): Buffer {
    return this.#inner.frame(frame);
  }
  error(status: Status): Buffer {
    return this.#inner.error(status);
  }
}
