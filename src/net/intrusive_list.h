// Intrusive lists: objects hold their own links, nothing is allocated, and removal is O(1).
#pragma once

namespace penstock::net {

// Base class of list elements. An element is in at most one list per Tag and leaves it on destruction.
template <class Tag>
class ListHook {
 public:
  ListHook() = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;
  ~ListHook() { unlink(); }

  void unlink() {
    previous_->next_ = next_;
    next_->previous_ = previous_;
    previous_ = next_ = this;
  }

 private:
  template <class T, class OfTag>
  friend class IntrusiveList;

  void insert_behind(ListHook& place) {
    previous_ = &place;
    next_ = place.next_;
    next_->previous_ = this;
    place.next_ = this;
  }

  ListHook* previous_ = this;
  ListHook* next_ = this;
};

// A non-owning list. T derives from ListHook<Tag>. A pushed element leaves its previous list.
template <class T, class Tag>
class IntrusiveList {
 public:
  [[nodiscard]] bool empty() const { return ends_.next_ == &ends_; }
  [[nodiscard]] T& front() { return static_cast<T&>(*ends_.next_); }
  // Returns the next element, or null after the last.
  [[nodiscard]] T* behind(T& item) {
    ListHook<Tag>* next = static_cast<ListHook<Tag>&>(item).next_;
    return next == &ends_ ? nullptr : static_cast<T*>(next);
  }
  void push_front(T& item) {
    ListHook<Tag>& hook = item;
    hook.unlink();
    hook.insert_behind(ends_);
  }
  void push_back(T& item) {
    ListHook<Tag>& hook = item;
    hook.unlink();
    hook.insert_behind(*ends_.previous_);
  }

 private:
  ListHook<Tag> ends_;
};

}  // namespace penstock::net
