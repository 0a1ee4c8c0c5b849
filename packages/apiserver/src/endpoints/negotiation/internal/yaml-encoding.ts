import { parseExact } from '@oarlock/api/json/exact-json';
import type { ListMeta } from '@oarlock/api/object';
import type { Status } from '@oarlock/api/status';
import { CollectedBytes } from './collected-bytes.ts';
import { toYaml } from './to-yaml.ts';
import type { ResponseEncoding } from '../response-encoding.ts';
import type { ByteSink, EncodedObject, WatchFrame } from '../../request/response.ts';

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
