/** A role as a row. A rule is `verbs | groups | resources | names` or `verbs | paths`, lists with commas, `core` for the core group. */
export interface RoleRow {
  readonly namespace?: string;
  readonly name: string;
  /** The role that aggregates its rules, and the aggregation label of the roles whose rules it aggregates. */
  readonly into?: string;
  readonly from?: string;
  readonly rules?: readonly string[];
}

/** A binding as a row. Subjects are `user NAME`, `group NAME` or `account NAMESPACE/NAME`; `role` defaults to the binding's name. */
export interface BindingRow {
  readonly namespace?: string;
  readonly name: string;
  readonly role?: string;
  readonly to: readonly string[];
}
