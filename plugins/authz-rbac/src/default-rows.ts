/** A role in short. A rule is `verbs | groups | resources | names` or `verbs | paths`, lists with commas, `core` for the group without a name. */
export interface RoleRow {
  readonly namespace?: string;
  readonly name: string;
  /** The aggregated role that takes over its rules, and the one whose rules it is made of. */
  readonly into?: string;
  readonly from?: string;
  readonly rules?: readonly string[];
}

/** A binding in short. Subjects are `user NAME`, `group NAME` or `account NAMESPACE/NAME`; the role has the binding's name unless said otherwise. */
export interface BindingRow {
  readonly namespace?: string;
  readonly name: string;
  readonly role?: string;
  readonly to: readonly string[];
}
