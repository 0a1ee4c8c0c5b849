import { stringifyExact } from '@oarlock/api/exact-json';
import type { ListMeta } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Status } from '@oarlock/api/status';
import type { Encoding, Sink } from '../negotiation-encoding.ts';
import { errorLine } from '../negotiation-error-line.ts';
import type { Encoded, WatchFrame } from '../response.ts';
import { metadataJson, metaVersion, type MetaVersion } from './metadata.ts';
import { printerOf } from './printers.ts';
import type { Printer } from './printer.ts';
import { scalePrinter } from './workloads.ts';

/** What a row carries besides its cells: nothing, `PartialObjectMetadata`, or the whole object. */
export type IncludeObject = 'None' | 'Metadata' | 'Object';

const comma = Buffer.from(',');

/** Objects as rows of a `Table` of meta.k8s.io. Cells are made anew for each request, since ages are among them. */
export class TableEncoder implements Encoding {
  readonly contentType = 'application/json';
  readonly streamType = 'application/json';
  readonly #printer: Printer;
  readonly #version: MetaVersion;
  readonly #include: IncludeObject;
  readonly #now: () => number;
  /** A watch says once what its columns are. */
  #headed = false;

  constructor(
    resource: Resource,
    version: MetaVersion,
    { includeObject, now }: { readonly includeObject: IncludeObject; readonly now: () => number },
  ) {
    this.#printer = printerOf(resource);
    this.#version = version;
    this.#include = includeObject;
    this.#now = now;
  }

  item(item: Encoded): Buffer {
    return Buffer.concat([this.#single(item, true), Buffer.from('\n')]);
  }

  listHead(metadata: ListMeta): Buffer {
    return Buffer.from(this.#head(metadata, true));
  }

  listItem(item: Encoded, first: boolean, sink: Sink): void {
    if (!first) sink.add(comma);
    for (const part of this.#row(item, this.#now())) sink.add(part);
  }

  listTail(_metadata: ListMeta): Buffer {
    return Buffer.from(']}\n');
  }

  frame({ type, item }: WatchFrame): Buffer {
    const table = this.#single(item, !this.#headed);
    this.#headed = true;
    return Buffer.concat([Buffer.from(`{"type":"${type}","object":`), table, Buffer.from('}\n')]);
  }

  error(status: Status): Buffer {
    return errorLine(status);
  }

  #single(item: Encoded, columns: boolean): Buffer {
    const { metadata, kind } = item.object;
    const { resourceVersion } = metadata ?? {};
    const printer = kind === 'Scale' ? scalePrinter : this.#printer;
    return Buffer.concat([
      Buffer.from(this.#head(resourceVersion === undefined ? {} : { resourceVersion }, columns, printer)),
      ...this.#row(item, this.#now(), printer),
      Buffer.from(']}'),
    ]);
  }

  #head(metadata: ListMeta, columns: boolean, printer = this.#printer): string {
    return `{"kind":"Table","apiVersion":"${metaVersion(this.#version)}","metadata":${JSON.stringify(metadata)},"columnDefinitions":${columns ? JSON.stringify(printer.columns) : 'null'},"rows":[`;
  }

  #row(item: Encoded, now: number, printer = this.#printer): readonly Buffer[] {
    const conditions = printer.conditions?.(item.object) ?? [];
    const cells = `{"cells":${stringifyExact(printer.cells(item.object, now))}${conditions.length === 0 ? '' : `,"conditions":${JSON.stringify(conditions)}`}`;
    switch (this.#include) {
      case 'None':
        return [Buffer.from(`${cells},"object":null}`)];
      case 'Metadata':
        return [Buffer.from(`${cells},"object":`), metadataJson(item, this.#version), closing];
      case 'Object':
        return [Buffer.from(`${cells},"object":`), ...item.pieces(), closing];
    }
  }
}

const closing = Buffer.from('}');
